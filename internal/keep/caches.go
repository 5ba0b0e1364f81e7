package keep

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/truth"
)

// The second file is what is assumed of caches, which may be large: it is written and read piece by piece, while the index goes on to change.
//
//	warmpath-caches 1\n
//	pieces: how many records (4 bytes), the records (24 bytes each), a CRC-32C of both
//	0 (4 bytes), the length of what follows (4 bytes), JSON that names the workers and the time, its CRC-32C
//
// All numbers are little-endian. The workers come last: those alone of which nothing changed while the records were written.

// CachesVersion is of that form, and of what block keys are made of.
const CachesVersion = 1

const (
	recordBytes   = 24
	pieceMax      = 4096 // records
	tableBytesMax = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Caches is what the file says.
type Caches struct {
	Saved   time.Time      `json:"saved"`
	Seed    string         `json:"seed"` // fingerprint: keys under another one mean nothing
	Workers []CachedWorker `json:"workers"`

	Records map[int][]prefix.Record `json:"-"` // by Slot
}

// CachedWorker is one worker, as one process of its engine.
type CachedWorker struct {
	ID      string      `json:"id"`
	URL     string      `json:"url"`
	Slot    int         `json:"slot"`    // that its records have
	Started float64     `json:"started"` // when its engine's process started, in the engine's own words
	Truth   *truth.Kept `json:"truth,omitempty"`
}

// CachesWriter writes the file.
type CachesWriter struct {
	w   *bufio.Writer
	buf []byte
}

// NewCachesWriter begins one.
func NewCachesWriter(w io.Writer) *CachesWriter {
	c := &CachesWriter{w: bufio.NewWriterSize(w, 256<<10)}
	fmt.Fprintf(c.w, "warmpath-caches %d\n", CachesVersion) // an error stays with the writer until End
	return c
}

// Append writes records.
func (c *CachesWriter) Append(records []prefix.Record) {
	for len(records) > 0 {
		n := min(len(records), pieceMax)
		b := binary.LittleEndian.AppendUint32(c.buf[:0], uint32(n))
		for _, r := range records[:n] {
			b = binary.LittleEndian.AppendUint16(b, uint16(r.Slot))
			b = binary.LittleEndian.AppendUint16(b, r.Size)
			b = binary.LittleEndian.AppendUint32(b, r.Stamp)
			b = binary.LittleEndian.AppendUint64(b, uint64(r.Key))
			b = binary.LittleEndian.AppendUint64(b, uint64(r.Parent))
		}
		c.buf = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		c.w.Write(c.buf)
		records = records[n:]
	}
}

// End writes what all of it is about, without which the file is none.
func (c *CachesWriter) End(all Caches) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("what is assumed of caches cannot be written: %w", err)
	}
	b := binary.LittleEndian.AppendUint32(c.buf[:0], 0)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
	c.w.Write(binary.LittleEndian.AppendUint32(b, crc32.Checksum(text, castagnoli)))
	return c.w.Flush()
}

// ReadCaches reads the file, if it is no older than ageMax and its keys are under that seed. More records than recordsMax are an error.
func ReadCaches(r io.Reader, now time.Time, ageMax time.Duration, seed string, recordsMax int) (*Caches, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.ReadSlice('\n')
	var version int
	if n, _ := fmt.Sscanf(string(head[:min(len(head), 64)]), "warmpath-caches %d", &version); n < 1 {
		return nil, errors.Join(errors.New("its first line is not that of such a file"), err)
	}
	if version != CachesVersion {
		return nil, fmt.Errorf("%w, %d; this warmpath's is %d", ErrVersion, version, CachesVersion)
	}
	records := map[int][]prefix.Record{}
	for count := 0; ; {
		n, err := readPiece(in, records)
		if err != nil {
			return nil, fmt.Errorf("it is not whole: %w", err)
		}
		if n == 0 {
			break
		}
		if count += n; count > recordsMax {
			return nil, fmt.Errorf("it has more than the %d blocks that there is memory for (setting index_bytes_max)", recordsMax)
		}
	}
	all, err := readTable(in)
	if err != nil {
		return nil, err
	}
	if age := now.Sub(all.Saved); age > ageMax || age < -earliest {
		return nil, fmt.Errorf("%w: it was written at %s, and may be %s old (setting state_max_age)", ErrTooOld, all.Saved.Format(time.RFC3339), ageMax)
	}
	if all.Seed != seed {
		return nil, fmt.Errorf("%w: its keys are under another installation's secret (setting state_dir)", ErrVersion)
	}
	all.Records = records
	return all, nil
}

var errSum = errors.New("a check sum is not that of what it stands behind")

// readPiece reads one piece of records; 0: there are no more.
func readPiece(in *bufio.Reader, into map[int][]prefix.Record) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n == 0 {
		return 0, nil
	}
	if n > pieceMax {
		return 0, fmt.Errorf("a piece of %d records, more than %d", n, pieceMax)
	}
	b := make([]byte, 4+n*recordBytes+4)
	copy(b, head[:])
	if _, err := io.ReadFull(in, b[4:]); err != nil {
		return 0, err
	}
	end := len(b) - 4
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return 0, errSum
	}
	for b = b[4:end]; len(b) > 0; b = b[recordBytes:] {
		slot := int(binary.LittleEndian.Uint16(b))
		into[slot] = append(into[slot], prefix.Record{Slot: slot, Size: binary.LittleEndian.Uint16(b[2:]), Stamp: binary.LittleEndian.Uint32(b[4:]),
			Key: prefix.Key(binary.LittleEndian.Uint64(b[8:])), Parent: prefix.Key(binary.LittleEndian.Uint64(b[16:]))})
	}
	return n, nil
}

func readTable(in *bufio.Reader) (*Caches, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, fmt.Errorf("it is not whole: %w", err)
	}
	n := int64(binary.LittleEndian.Uint32(size[:]))
	if n > tableBytesMax {
		return nil, fmt.Errorf("its table of workers has %d bytes, more than %d", n, int64(tableBytesMax))
	}
	var text bytes.Buffer // it grows with what is there, not with what is said to be
	if _, err := io.CopyN(&text, in, n+4); err != nil {
		return nil, fmt.Errorf("it is not whole: %w", err)
	}
	b := text.Bytes()
	if binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, fmt.Errorf("it is not whole: %w", errSum)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return nil, errors.New("something follows its end")
	}
	all := new(Caches)
	return all, json.Unmarshal(b[:n], all)
}
