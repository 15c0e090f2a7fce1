// Reads responses, each { Headers, Reset }, with the reset as a Unix time.
import { parseRateLimit } from 'ratelimit-header-parser'
import { batch } from './stdin.mjs'

batch(({ Headers, Reset }) => {
  const rate = parseRateLimit(new globalThis.Headers(Headers), Reset ? { reset: Reset } : undefined)
  // What is absent is NaN, which is null in JSON.
  return { Limit: rate.limit, Remaining: rate.remaining, Reset: rate.reset ? Math.floor(rate.reset / 1000) : null }
})
