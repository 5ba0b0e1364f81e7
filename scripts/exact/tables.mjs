// Asks the reference tokenizer which code points are letters, digits, marks and so on, how it decomposes and composes them, and packs
// what it says into internal/words/unicode.bin (the format is told there, in unicode.go). Written out of the reference itself,
// because it mixes Unicode versions: the one of its regular expressions is years ahead of the one of its normaliser.
//
//   NODE_PATH=.cache/exact/node_modules node scripts/exact/tables.mjs FILE
import { createRequire } from 'module'
import fs from 'fs'

const { Tokenizer } = createRequire(import.meta.url)('@anush008/tokenizers')
const codePoints = []
for (let c = 0; c < 0x110000; c++) if (c < 0xd800 || c > 0xdfff) codePoints.push(c)
const text = (...cs) => String.fromCodePoint(...cs)
const batches = function* (list, size) {
  for (let i = 0; i < list.length; i += size) yield list.slice(i, i + size)
}

// Each byte is a token whose id is its value.
const byteVocab = {}
let beyond = 0
for (let b = 0; b < 256; b++) {
  const plain = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae
  byteVocab[text(plain ? b : 256 + beyond++)] = b
}
const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
const build = (parts) =>
  Tokenizer.fromString(
    JSON.stringify({
      version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: bytes, post_processor: null, decoder: null,
      model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, vocab: byteVocab, merges: [] },
      ...parts,
    }),
  )
const ids = async (tokenizer, s) => Array.from((await tokenizer.encode(s, null, { addSpecialTokens: false })).getIds())
const written = async (tokenizer, s) => Buffer.from(await ids(tokenizer, s)).toString('utf8')

// Each code point twice in a row: one that matches is cut off alone, both times.
async function members(preTokenizer) {
  const tokenizer = build({
    pre_tokenizer: preTokenizer,
    model: { type: 'WordLevel', vocab: { '?': 0 }, unk_token: '?' },
  })
  const found = new Set()
  for (const batch of batches(codePoints, 2048)) {
    const e = await tokenizer.encode(batch.map((c) => text(c, c)).join(''), null, { addSpecialTokens: false })
    for (const [from, to] of e.getOffsets()) if (to - from === 1 && from % 2 === 0) found.add(batch[from / 2])
  }
  return found
}
const regex = (r) => members({ type: 'Split', pattern: { Regex: r }, behavior: 'Isolated', invert: false })

async function words() {
  const tokenizer = build({ added_tokens: [{ id: 256, content: 'QQ', single_word: true, lstrip: false, rstrip: false, normalized: false, special: false }] })
  const found = new Set()
  for (const batch of batches(codePoints.filter((c) => c !== 10), 2048)) {
    const lines = (await ids(tokenizer, batch.map((c) => 'QQ' + text(c)).join('\n'))).join(' ').split(' 10 ')
    batch.forEach((c, i) => lines[i].startsWith('256') || found.add(c))
  }
  return found
}

// Lines normalise independently: no combining character touches a line feed.
async function normalised(form, strings) {
  const tokenizer = build({ normalizer: { type: form } })
  const out = []
  for (const batch of batches(strings, 2048)) out.push(...(await written(tokenizer, batch.join('\n'))).split('\n'))
  return out
}

async function normalisation() {
  const all = codePoints.filter((c) => c !== 10)
  const [nfd, nfc] = [await normalised('NFD', all.map((c) => text(c))), await normalised('NFC', all.map((c) => text(c)))]
  const hangul = (c) => c >= 0xac00 && c < 0xac00 + 11172
  const decompositions = []
  all.forEach((c, i) => {
    if (nfd[i] !== text(c) && !hangul(c)) decompositions.push({ c, to: [...nfd[i]].map((x) => x.codePointAt(0)), composes: nfc[i] === text(c) })
  })
  // A mark moves before U+0345 or behind U+0334, the last and the first class there is.
  const stable = all.filter((c, i) => nfd[i] === text(c))
  const after = await normalised('NFD', stable.map((c) => 'a\u0345' + text(c)))
  const before = await normalised('NFD', stable.map((c) => 'a' + text(c) + '\u0334'))
  const marks = stable.filter((c, i) => c === 0x345 || c === 0x334 || after[i] !== 'a\u0345' + text(c) || before[i] !== 'a' + text(c) + '\u0334')
  const swaps = async (x, y) => (await normalised('NFD', ['a' + text(x, y)]))[0] !== 'a' + text(x, y)
  const classes = [] // ascending, each a list of marks that do not pass one another
  for (const c of marks) {
    let i = 0
    while (i < classes.length && (await swaps(c, classes[i][0]))) i++
    if (i < classes.length && !(await swaps(classes[i][0], c))) classes[i].push(c)
    else classes.splice(i, 0, [c])
  }
  const order = new Map()
  classes.forEach((list, i) => list.forEach((c) => order.set(c, i + 1)))
  return { decompositions, order }
}

const out = []
const put = (n) => {
  for (; n > 127; n = Math.floor(n / 128)) out.push((n & 127) | 128)
  out.push(n)
}
// The order of the bits is that of the constants in unicode.go.
const sets = []
for (const r of ['\\p{L}', '\\p{N}', '\\p{M}', '\\p{P}', '\\p{S}', '\\s', '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]']) sets.push(await regex(r))
sets.push(await words(), await members({ type: 'Digits', individual_digits: true }))
const { decompositions, order } = await normalisation()

const runs = []
for (let c = 0; c < 0x110000; c++) {
  let bits = 0
  sets.forEach((s, i) => s.has(c) && (bits |= 1 << i))
  if (runs.length && runs.at(-1).bits === bits) runs.at(-1).length++
  else runs.push({ bits, length: 1 })
}
put(runs.length)
for (const r of runs) put(r.length), put(r.bits)
put(order.size)
let last = 0
for (const [c, o] of [...order].sort((a, b) => a[0] - b[0])) put(c - last), put(o), (last = c)
put(decompositions.length)
last = 0
for (const d of decompositions) {
  put(d.c - last), put(d.to.length * 2 + (d.composes ? 1 : 0)), (last = d.c)
  d.to.forEach(put)
}
fs.writeFileSync(process.argv[2], Buffer.from(out))
console.log(`tables: ${sets.map((s) => s.size).join(' ')}; runs ${runs.length}, marks ${order.size}, decompositions ${decompositions.length}, ${out.length} bytes`)
const [onlyN, onlyDigits] = [[...sets[1]].filter((c) => !sets[9].has(c)), [...sets[9]].filter((c) => !sets[1].has(c))]
console.log(`tables: numbers of the pattern engine that Digits does not know ${onlyN.length}, the other way ${onlyDigits.length}`)
