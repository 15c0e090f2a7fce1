import moleculer from 'moleculer'
import gateway from 'moleculer-web'
import { host, ready } from './listen.mjs'

const broker = new moleculer.ServiceBroker({ logger: false })
broker.createService({ name: 'index', actions: { ok: () => 'ok' } })
const api = broker.createService({
  mixins: [gateway],
  settings: {
    ip: host,
    port: 0,
    rateLimit: { limit: 3, window: 60_000, headers: true },
    routes: [{ path: '/', aliases: { 'GET /': 'index.ok' } }],
  },
})
await broker.start()
ready(api.server.address().port)
