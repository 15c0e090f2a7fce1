import Hapi from '@hapi/hapi'
import rateLimit from 'hapi-rate-limit'
import { host, ready } from './listen.mjs'

const server = Hapi.server({ host, port: 0 })
await server.register({
  plugin: rateLimit,
  options: {
    pathLimit: 3,
    pathCache: { expiresIn: 60_000 },
    userLimit: 5,
    userCache: { expiresIn: 600_000 },
  },
})
server.route({ method: 'GET', path: '/', handler: () => 'ok' })
await server.start()
ready(server.info.port)
