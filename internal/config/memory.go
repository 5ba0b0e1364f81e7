package config

import "github.com/warmpath/warmpath/internal/strict"

// MemoryAuto is memory_max where it is found out.
const MemoryAuto = "auto"

// memoryLeast is what a router needs to start and to take in a body of the usual size.
const memoryLeast = 64 << 20

// MemoryBytes is memory_max in bytes, 0 where it is to be found out.
func (c Config) MemoryBytes() int64 {
	n, err := strict.ParseBytes(c.MemoryMax)
	if c.MemoryMax == MemoryAuto || err != nil { // Validate refuses what is none
		return 0
	}
	return int64(n)
}

func (v *verdict) memory(text string) {
	if text == MemoryAuto {
		return
	}
	n, err := strict.ParseBytes(text)
	switch {
	case err != nil:
		v.wrong("memory_max", "%v, or %s", err, MemoryAuto)
	case n < memoryLeast:
		v.wrong("memory_max", "%s is less than the least, %s; leave it at %s where there is no limit", n, strict.Bytes(memoryLeast), MemoryAuto)
	}
}
