package config

import (
	"github.com/warmpath/warmpath/internal/strict"
)

//go:generate go test -count=1 -run ^TestTheGeneratedDocumentsAreCurrent$ . -args -update

// Schema is the JSON schema of the configuration file, made from the Config's own tags.
func Schema() string { return strict.Schema("warmpath configuration", Default()) }

// Reference is docs/CONFIG.md.
func Reference() string { return referenceHead + strict.Reference("The keys", Default()) }

// Print is c as a file that Load reads back: every key, each under its description, defaults included. Credentials are left out, and a
// comment says so.
func Print(c Config) string {
	return strict.Print("# warmpath configuration: every key with its value.\n\n", c)
}

// What a file's values and the errors of a file are.
type (
	Bytes   = strict.Bytes
	Secret  = strict.Secret
	Problem = strict.Problem
	Error   = strict.Error
)

const referenceHead = `# Configuration

Generated from the Config type; ` + "`make generate`" + ` writes it again.

Nothing here is required: ` + "`warmpath serve --worker URL`" + ` starts with the defaults below. Flags win over the file.
` + "`warmpath config print`" + ` writes them all out as a file to start from; ` + "`warmpath config print FILE`" + ` shows what a file comes to.
` + "`warmpath config check FILE`" + ` gives the verdict that ` + "`serve`" + ` would give, without starting anything, and ends with 0 or 2;
` + "`warmpath config schema`" + ` prints the JSON schema (also in config.schema.json here) for editors.

` + "```yaml" + `
listen: 127.0.0.1:8800
admin: 127.0.0.1:8801
workers:
  - http://gpu-1:8000                  # a URL alone
  - url: https://gpu-2.internal        # or more
    id: gpu-2
    key: ${env.GPU2_KEY}
    in_flight_max: 64
policy: warm-cost
drain_timeout: 1m
timeouts:
  connect: 2s
  idle_gap: 10m
decision_log:
  file: decisions.jsonl
` + "```" + `

- An unknown or misspelt key, a value of the wrong type, a value out of its limits, two settings that contradict each other and a
  worker listed twice are errors at start, all of them reported at once with file, line, key and the nearest right name.
- Durations need a unit: ` + "`250ms`, `30s`, `5m`" + `. Sizes take one: ` + "`64MiB`, `1GiB`, `500kB`" + `, or plain bytes.
- ` + "`${env.NAME}`" + ` in any value is replaced by the environment variable; one that is unset or empty is an error. ` + "`$${`" + ` is a literal ` + "`${`" + `.
`
