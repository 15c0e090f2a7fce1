import Koa from 'koa'
import ratelimit from 'koa-ratelimit'
import { listen } from './listen.mjs'

const app = new Koa()
app.use(ratelimit({ driver: 'memory', db: new Map(), max: 3, duration: 60_000 }))
app.use((ctx) => { ctx.body = 'ok' })
listen(app.callback())
