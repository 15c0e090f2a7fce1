// What the servers have in common: they say where they listen, in one line, and
// end with the process that started them.
import http from 'node:http'

export const host = '127.0.0.1'

process.stdin.resume().once('end', () => process.exit())

export function ready(port) {
  console.log(`http://${host}:${port}/`)
}

export function listen(handler) {
  const server = http.createServer(handler)
  server.listen(0, host, () => ready(server.address().port))
}
