// node fastify.mjs [draft]
import Fastify from 'fastify'
import rateLimit from '@fastify/rate-limit'
import { host, ready } from './listen.mjs'

const app = Fastify()
await app.register(rateLimit, { max: 3, timeWindow: 60_000, enableDraftSpec: process.argv[2] === 'draft' })
app.get('/', async () => 'ok')
await app.listen({ port: 0, host })
ready(app.server.address().port)
