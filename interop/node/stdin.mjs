// A batch: JSON from standard input, what answer makes of each element of it as
// JSON to standard output.
import { readFileSync, writeSync } from 'node:fs'

export function batch(answer) {
  const output = Buffer.from(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(answer)))
  for (let n = 0; n < output.length;) n += writeSync(1, output, n)
}
