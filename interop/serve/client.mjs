// node client.mjs http://127.0.0.1:8080/ sends requests until one is refused, and prints each answer:
// the status, what remains, and after a refusal the seconds to wait.
for (let refused = false; !refused;) {
  const { status, headers } = await fetch(process.argv[2], { headers: { Authorization: 'node' } })
  const remaining = headers.get('RateLimit')?.match(/r=(\d+)/)[1] ?? headers.get('X-RateLimit-Remaining')
  refused = status >= 400
  const wait = headers.get('Retry-After') ?? headers.get('X-RateLimit-Reset') - Date.parse(headers.get('Date')) / 1000
  console.log(status, Number(remaining), ...(refused ? [Number(wait)] : []))
}
