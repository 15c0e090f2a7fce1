// Reads pairs of RateLimit-Policy and RateLimit, and names the types of values.
import { DisplayString, Token, parseList } from 'structured-headers'
import { batch } from './stdin.mjs'

function value(v) {
  if (v instanceof Token) return `token:${v}`
  if (v instanceof DisplayString) return `display:${v}`
  if (v instanceof ArrayBuffer) return `bytes:${Buffer.from(v).toString('base64')}`
  if (v instanceof Date) return `date:${v.getTime() / 1000}`
  return `${typeof v}:${v}`
}

function list(text) {
  const members = parseList(text).map(([name, params]) => ({
    Name: name,
    Params: [...params].map(([key, v]) => `${key} ${value(v)}`),
  }))
  return members.length ? members : null
}

batch((pair) => pair.map(list))
