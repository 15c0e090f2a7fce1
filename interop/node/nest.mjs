// node nest.mjs [first|second]: two throttlers; the named one refuses.
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import { host, ready } from './listen.mjs'

const throttlers = {
  first: [{ name: 'short', ttl: 60_000, limit: 3 }, { name: 'long', ttl: 600_000, limit: 5 }],
  second: [{ name: 'short', ttl: 60_000, limit: 5 }, { name: 'long', ttl: 600_000, limit: 3 }],
}[process.argv[2]] ?? [{ ttl: 60_000, limit: 3 }]

// The decorators are called by hand: Node runs no TypeScript.
class Index {
  index() {
    return 'ok'
  }
}
Get()(Index.prototype, 'index', Object.getOwnPropertyDescriptor(Index.prototype, 'index'))
Controller()(Index)

class App {}
Module({
  imports: [ThrottlerModule.forRoot(throttlers)],
  controllers: [Index],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})(App)

const app = await NestFactory.create(App, { logger: false })
await app.listen(0, host)
ready(app.getHttpServer().address().port)
