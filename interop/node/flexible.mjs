// The fields as the README of rate-limiter-flexible sets them.
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { listen } from './listen.mjs'

const options = { points: 3, duration: 60 }
const limiter = new RateLimiterMemory(options)

function say(res, status, result) {
  res.writeHead(status, {
    'Retry-After': result.msBeforeNext / 1000,
    'X-RateLimit-Limit': options.points,
    'X-RateLimit-Remaining': result.remainingPoints,
    'X-RateLimit-Reset': Math.ceil((Date.now() + result.msBeforeNext) / 1000),
  }).end()
}

listen((req, res) => limiter.consume('client').then((r) => say(res, 200, r), (r) => say(res, 429, r)))
