// Reads responses of vendors, each { Headers, Now }. Now is the Unix time in milliseconds at which
// the response arrived. The result is null, or the numbers that the library finds, with the reset
// in seconds from then.
import { parseRateLimit } from 'ratelimit-header-parser'
import { batch } from './stdin.mjs'

const RealDate = Date

batch(({ Headers, Now }) => {
  globalThis.Date = class extends RealDate {
    constructor(...args) {
      super(...(args.length ? args : [Now]))
    }

    static now() {
      return Now
    }
  }
  const rate = parseRateLimit(new globalThis.Headers(Headers))
  // What is absent is NaN, which is null in JSON.
  return rate ? { Limit: rate.limit, Remaining: rate.remaining, Reset: rate.reset ? Math.ceil((rate.reset - Now) / 1000) : null } : null
})
