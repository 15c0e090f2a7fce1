// A reader of RateLimit-Policy and RateLimit on structured-headers. It says of
// each case of ratelimittest/vectors/policies.json and limits.json what it reads, in
// the form of the vectors, or null where it refuses the lines.
import { DisplayString, Token, parseList } from 'structured-headers'
import { batch } from './stdin.mjs'

const integer = (least) => (v) => Number.isInteger(v) && v >= least
const string = (v) => typeof v === 'string'
const bytes = (v) => v instanceof ArrayBuffer

// The parameters of each field: key, name in the vectors, what it may be.
const fields = {
  policies: { q: ['quota', integer(0)], qu: ['unit', string], w: ['window', integer(1)], pk: ['partition_key', bytes] },
  limits: { r: ['remaining', integer(0)], t: ['reset', integer(0)], pk: ['partition_key', bytes] },
}

function base32(buffer) {
  const bits = [...new Uint8Array(buffer)].map((b) => b.toString(2).padStart(8, '0')).join('')
  const digits = bits.match(/.{1,5}/g) ?? []
  const text = digits.map((d) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[parseInt(d.padEnd(5, '0'), 2)]).join('')
  return text.padEnd(Math.ceil(text.length / 8) * 8, '=')
}

function typed(v) {
  if (v instanceof Token) return { __type: 'token', value: v.toString() }
  if (v instanceof DisplayString) return { __type: 'displaystring', value: v.toString() }
  if (bytes(v)) return { __type: 'binary', value: base32(v) }
  if (v instanceof Date) return { __type: 'date', value: v.getTime() / 1000 }
  return v
}

function readMember(defined, [name, params]) {
  if (!string(name)) throw new Error('the name is no String')
  const member = { name }
  for (const [key, v] of params) {
    const [as, allowed] = defined[key] ?? []
    if (!as) {
      ;(member.params ??= []).push([key, typed(v)])
    } else if (!allowed(v)) {
      throw new Error(`${key} has a wrong value`)
    } else if (v !== '') { // qu="" is as good as absent
      member[as] = bytes(v) ? Buffer.from(v).toString('base64') : Object.is(v, -0) ? 0 : v
    }
  }
  const required = Object.values(defined)[0][0]
  if (!(required in member)) throw new Error(`no ${required}`)
  return member
}

export function read({ kind, lines }) {
  try {
    return parseList(lines.join(', ')).map((item) => readMember(fields[kind], item))
  } catch {
    return null
  }
}

if (process.argv[1].endsWith('vectors.mjs')) batch(read)
