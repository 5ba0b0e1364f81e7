// Encodes with the reference tokenizer: each line of standard input is a job in JSON,
//
//	{"tokenizer": FILE, "strings": FILE with a JSON array, "out": FILE, "wrap": false}
//
// and is answered by a line when its ids are written: for each string how many, then the ids, all as 32 bits, low byte first. With
// "repeat": N it encodes them N times, one by one, and writes nothing; the answer is the time it took in seconds.
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
  if (job.repeat) {
    const from = process.hrtime.bigint()
    for (let i = 0; i < job.repeat; i++) for (const s of strings) await loaded.tokenizer.encode(s, null, options)
    console.log(Number(process.hrtime.bigint() - from) / 1e9)
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
