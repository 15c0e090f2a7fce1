// Times packages on the inputs of interop/bench. The first line of standard input
// is a list of tasks, every other one a question: { Task, Milliseconds }. A reply
// is the nanoseconds of doing the task once, or its answer if the time is 0.
import readline from 'node:readline'
import { parseDictionary, parseList, serializeList } from 'structured-headers'
import { parseRateLimit } from 'ratelimit-header-parser'

function refuse() {
  throw new TypeError('refused')
}

// number reads an Integer, 0 where it may be absent and is.
function number(params, key, least, optional) {
  const n = params.get(key)
  if (n === undefined && optional) return 0
  return Number.isInteger(n) && n >= least ? n : refuse()
}

function name(value) {
  return typeof value === 'string' ? value : refuse()
}

function member([value, params]) {
  const key = params.get('pk')
  if (key !== undefined && !(key instanceof ArrayBuffer)) refuse()
  const limit = params.has('r')
  return {
    Name: name(value),
    Unit: name(params.get('qu') ?? ''),
    Key: key,
    Quota: limit ? 0 : number(params, 'q', 0),
    Window: number(params, 'w', 1, true),
    Remaining: limit ? number(params, 'r', 0) : 0,
    Reset: number(params, 't', 0, true),
  }
}

function write(members) {
  return serializeList(members.map((m) => {
    const params = new Map()
    for (const [key, n] of [['q', m.Quota], ['w', m.Window], ['r', m.Remaining], ['t', m.Reset]]) {
      if (n) params.set(key, n)
    }
    return [m.Name, params]
  }))
}

function current(headers) {
  const policies = parseList(headers.get('ratelimit-policy')).map(member)
  return parseList(headers.get('ratelimit')).map(member).map((l) => {
    const p = policies.find((p) => p.Name === l.Name)
    return { ...l, Quota: p.Quota, Window: p.Window }
  })
}

function draft07(headers) {
  const dict = parseDictionary(headers.get('ratelimit'))
  const numbers = new Map([...dict].map(([key, [value]]) => [key, value]))
  const quota = number(numbers, 'limit', 0)
  const policy = parseList(headers.get('ratelimit-policy')).find(([q]) => q === quota)
  return [{
    Name: 'default',
    Quota: quota,
    Window: policy ? number(policy[1], 'w', 1, true) : 0,
    Remaining: number(numbers, 'remaining', 0),
    Reset: number(numbers, 'reset', 0),
  }]
}

// Each makes of an input what is timed, and of its result the answer.
const kinds = {
  parse: {
    prepare: (line) => () => parseList(line).map(member),
    answer: (members) => ({ Rates: members.map((m) => ({ ...m, Key: m.Key ? Buffer.from(m.Key).toString() : '' })) }),
  },
  write: {
    prepare: (line) => {
      const members = parseList(line).map(member)
      return () => write(members)
    },
    answer: (text) => ({ Text: text }),
  },
  current: { prepare: (lines) => bind(current, lines), answer: (rates) => ({ Rates: rates }) },
  draft07: { prepare: (lines) => bind(draft07, lines), answer: (rates) => ({ Rates: rates }) },
  response: {
    prepare: (lines) => bind(parseRateLimit, lines),
    answer: (rate, lines) => ({
      Rates: rate && [{
        Name: lines['X-Ratelimit-Resource']?.[0] ?? 'default', // which it does not read
        Quota: rate.limit,
        Remaining: rate.remaining,
        Reset: Math.round((rate.reset - Date.now()) / 1000),
      }],
    }),
  },
}

function bind(read, lines) {
  const headers = new Headers(Object.entries(lines).flatMap(([key, values]) => values.map((v) => [key, v])))
  return () => read(headers)
}

let result // what is not kept might not be made

function time(task, milliseconds) {
  for (; ; task.n *= 2) {
    const start = performance.now()
    for (let i = 0; i < task.n; i++) result = task.run()
    const took = performance.now() - start
    if (took >= milliseconds) return took * 1e6 / task.n
  }
}

let tasks
for await (const line of readline.createInterface({ input: process.stdin })) {
  const message = JSON.parse(line)
  let reply
  if (!tasks) {
    tasks = message.map(({ Do, Input }) => ({ n: 1, kind: kinds[Do], input: Input, run: kinds[Do].prepare(Input) }))
    reply = process.version
  } else {
    const task = tasks[message.Task]
    reply = message.Milliseconds ? time(task, message.Milliseconds) : task.kind.answer(task.run(), task.input)
  }
  process.stdout.write(JSON.stringify(reply) + '\n')
}
