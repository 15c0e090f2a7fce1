// A parser for "ratelimit fuzz": structured-headers, and the types of the draft.
import { createInterface } from 'node:readline'
import { read } from './vectors.mjs'

for await (const line of createInterface({ input: process.stdin })) {
  const { id, field, lines } = JSON.parse(line)
  const members = read({ kind: field === 'RateLimit' ? 'limits' : 'policies', lines })
  console.log(JSON.stringify(members ? { id, ok: true, members } : { id, ok: false }))
}
