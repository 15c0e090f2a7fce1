// node client.mjs http://127.0.0.1:8700/ 50
const [address, n] = [process.argv[2], Number(process.argv[3])]
const counts = new Map()
const worker = async first => {
  for (let i = first; i < n; i += 10) {
    const response = await fetch(address)
    await response.arrayBuffer()
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1)
  }
}
await Promise.all(Array.from({ length: 10 }, (_, i) => worker(i)))
console.log(`map[${[...counts].map(([status, count]) => `${status}:${count}`).join(' ')}]`)
