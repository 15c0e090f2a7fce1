// node hono.mjs FORM: FORM is draft-6, draft-7 or draft-8.
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { host, ready } from './listen.mjs'

const app = new Hono()
app.use(rateLimiter({ limit: 3, windowMs: 60_000, standardHeaders: process.argv[2], keyGenerator: () => 'client' }))
app.get('/', (c) => c.text('ok'))
serve({ fetch: app.fetch, port: 0, hostname: host }, ({ port }) => ready(port))
