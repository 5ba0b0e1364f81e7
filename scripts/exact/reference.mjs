// Encodes with the reference tokenizer: each line of standard input is a job in JSON,
//
//	{"tokenizer": FILE, "strings": FILE with a JSON array, "out": FILE, "wrap": false}
//
// and is answered by a line when its ids are written: for each string how many, then the ids, all as 32 bits, low byte first. With
// "time": true it writes nothing, and the answer is how many seconds of CPU, of all threads, encoding them one by one took. "fresh": true
// reads the tokenizer's file again.
import { createRequire } from 'module'
import fs from 'fs'
import readline from 'readline'

const { Tokenizer } = createRequire(import.meta.url)('@anush008/tokenizers')
const loaded = { file: '', tokenizer: null }

for await (const line of readline.createInterface({ input: process.stdin })) {
  const job = JSON.parse(line)
  if (loaded.file !== job.tokenizer || job.fresh) {
    loaded.tokenizer = Tokenizer.fromString(fs.readFileSync(job.tokenizer, 'utf8'))
    loaded.file = job.tokenizer
  }
  const options = { addSpecialTokens: !!job.wrap }
  const strings = JSON.parse(fs.readFileSync(job.strings, 'utf8'))
  if (job.time) {
    const from = process.cpuUsage()
    for (const s of strings) await loaded.tokenizer.encode(s, null, options)
    const took = process.cpuUsage(from)
    console.log((took.user + took.system) / 1e6)
    continue
  }
  const out = []
  for (const s of strings) {
    const ids = (await loaded.tokenizer.encode(s, null, options)).getIds()
    out.push(Uint32Array.of(ids.length), Uint32Array.from(ids))
  }
  fs.writeFileSync(job.out, Buffer.concat(out.map((a) => Buffer.from(a.buffer))))
  console.log('written')
}
