package kvevent

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/prefix"
)

// pack writes any value as msgpack. Pairs are maps in order; hashes may be forced into one width with wide.
type pairs []any

type wide struct {
	head byte
	n    int64
}

func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0)
	case bool:
		return append(b, 0xc3)
	case int:
		if v < 0 {
			return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
		}
		return appendInt(b, uint64(v))
	case uint64:
		return appendInt(b, v)
	case wide:
		full := binary.BigEndian.AppendUint64(nil, uint64(v.n))
		return append(append(b, v.head), full[8-(1<<(v.head&3)):]...)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
	case string:
		return appendText(b, v)
	case []byte:
		return append(append(b, 0xc4, byte(len(v))), v...)
	case []any:
		b = appendHead(b, 0x90, 0xdc, len(v))
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	case pairs:
		b = appendHead(b, 0x80, 0xde, len(v)/2)
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

type list = []any

func batch(events ...any) []byte { return pack(nil, list{1.5, list(events), 0}) }

func decode(t *testing.T, payload []byte) *Batch {
	t.Helper()
	b, err := new(Decoder).Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recorded is one message of an engine: what came, and what Python made of it.
type recorded struct {
	seq     uint64
	payload []byte
	want    [][]any
}

func recording(t testing.TB, name string) (all []recorded) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Seq, Payload string
			Want         [][]any
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		payload, _ := hex.DecodeString(l.Payload)
		seq, _ := strconv.ParseUint(l.Seq, 16, 64)
		all = append(all, recorded{seq, payload, l.Want})
	}
	return all
}

func nameOf(t *testing.T, v any) uint64 {
	t.Helper()
	s, ok := v.(string)
	if n, err := strconv.ParseUint(s, 10, 64); ok && err == nil {
		return n
	}
	n, ok := nameOfBytes([]byte(s), true)
	if !ok {
		t.Fatalf("%v is no hash", v)
	}
	return n
}

func TestRecordedMessagesOfVLLMReadAsPythonReadsThem(t *testing.T) {
	for _, name := range []string{"vllm_live.jsonl", "vllm_bytes.jsonl", "vllm_report.jsonl"} {
		var d Decoder
		for _, m := range recording(t, name) {
			b, err := d.Decode(m.payload)
			if err != nil || b.Unknown != 0 || len(b.Events) != len(m.want) || b.Rank != 0 {
				t.Fatalf("%s %d: %d events of %d, %d unknown, rank %d, %v", name, m.seq, len(b.Events), len(m.want), b.Unknown, b.Rank, err)
			}
			for i, want := range m.want {
				e := &b.Events[i]
				got := map[Kind]string{Stored: "BlockStored", Removed: "BlockRemoved", Cleared: "AllBlocksCleared"}[e.Kind]
				if got != want[0] || e.Kind != Cleared && (e.Tier != kvindex.GPU || !e.TierKnown || e.Group != 0) {
					t.Fatalf("%s %d: %+v, want %v", name, m.seq, e, want)
				}
				if e.Kind == Cleared {
					continue
				}
				if e.Names[0] != nameOf(t, want[1]) || e.Names[len(e.Names)-1] != nameOf(t, want[2]) || len(e.Names) != int(want[3].(float64)) {
					t.Fatalf("%s %d: hashes %d, want %v", name, m.seq, e.Names, want)
				}
				if e.Kind == Removed {
					continue
				}
				sum := uint32(0)
				for _, token := range e.Tokens {
					sum += token
				}
				if e.HasParent != (want[4] != nil) || e.HasParent && e.Parent != nameOf(t, want[4]) || len(e.Tokens) != int(want[5].(float64)) ||
					float64(sum) != want[6] || e.BlockTokens != int(want[7].(float64)) || e.GroupKind != "full_attention" {
					t.Fatalf("%s %d: %+v, want %v", name, m.seq, e, want)
				}
			}
		}
	}
}

// stored in each of the forms that engines have had.
func forms() map[string]any {
	hashes, tokens := list{1, uint64(math.MaxUint64)}, list{7, 300, 70000, 9}
	return map[string]any{
		"array":                 list{"BlockStored", hashes, 5, tokens, 2, nil},
		"array with medium":     list{"BlockStored", hashes, 5, tokens, 2, nil, "GPU"},
		"array, newest":         list{"BlockStored", hashes, 5, tokens, 2, nil, "GPU", nil, list{nil, nil}, 0, "full_attention", 128, pairs{"more", list{1}}},
		"map":                   pairs{"type", "BlockStored", "block_hashes", hashes, "parent_block_hash", 5, "token_ids", tokens, "block_size", 2, "lora_id", nil, "medium", "GPU", "lora_name", nil},
		"map, type last":        pairs{"token_ids", tokens, "block_size", 2, "parent_block_hash", 5, "block_hashes", hashes, "type", "BlockStored"},
		"map with new fields":   pairs{"type", "BlockStored", "locality", pairs{"a", list{1.5, true}}, 17, nil, "block_hashes", hashes, "parent_block_hash", 5, "token_ids", tokens, "block_size", 2},
		"array with name of it": list{"BlockStored", hashes, 5, tokens, 2, nil, "gpu", nil},
	}
}

func TestKVE05EveryFormOfAnEventReadsAlike(t *testing.T) {
	want := Event{Kind: Stored, Names: []uint64{1, math.MaxUint64}, Parent: 5, HasParent: true, Tokens: []uint32{7, 300, 70000, 9}, BlockTokens: 2, TierKnown: true}
	for name, form := range forms() {
		events := decode(t, batch(form)).Events
		if len(events) != 1 {
			t.Errorf("%s: %d events are understood, want 1", name, len(events))
			continue
		}
		got := events[0]
		got.Group, got.GroupKind, got.adapterID, got.extraRaw, got.extraBytes = 0, "", 0, nil, nil
		got.Extra, got.Left = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestKVE05WhatIsNotKnownIsSkippedAndCountedAndTheRestIsRead(t *testing.T) {
	removed := list{"BlockRemoved", list{9}}
	for name, c := range map[string]struct {
		event   any
		unknown int
	}{
		"an event kind":          {list{"BlockPinned", list{1}, pairs{"a", 1}}, 1},
		"an event kind in a map": {pairs{"type", "BlockPinned", "x", 1}, 1},
		"an event that is none":  {17, 1},
		"an empty event":         {list{}, 1},
		"a stored without size":  {list{"BlockStored", list{1}, nil, list{1}}, 1},
		"hashes of no kind":      {list{"BlockRemoved", list{1.5}}, 1},
		"pairs of tokens":        {list{"BlockStored", list{1}, nil, list{list{1, 2}}, 1, nil}, 1},
		"a group that is text":   {pairs{"type", "BlockRemoved", "block_hashes", list{1}, "group_idx", "a"}, 1},
		"fields at the end":      {list{"AllBlocksCleared", 1, 2, 3}, 0},
	} {
		b := decode(t, batch(c.event, removed))
		if b.Unknown != c.unknown || len(b.Events) != 2-c.unknown || b.Events[len(b.Events)-1].Names[0] != 9 {
			t.Errorf("%s: %d unknown, %d events", name, b.Unknown, len(b.Events))
		}
	}
	for _, whole := range [][]byte{
		pack(nil, list{1.5, list{removed}}), pack(nil, list{1.5, list{removed}, 3, "more"}),
		pack(nil, pairs{"ts", 1.5, "events", list{removed}, "data_parallel_rank", 3}), pack(nil, pairs{"attn_dp_rank", 3, "events", list{removed}}),
	} {
		if b := decode(t, whole); len(b.Events) != 1 || b.Rank != 3 && b.Rank != -1 {
			t.Errorf("%x: %d events, rank %d", whole, len(b.Events), b.Rank)
		}
	}
}

func TestKVE06HashesOfEveryWidthAndKindAreThemselves(t *testing.T) {
	long := slices.Repeat([]byte{1, 2, 3, 4}, 8)
	same := [][]any{
		{1, wide{0xcc, 1}, wide{0xcd, 1}, wide{0xce, 1}, wide{0xcf, 1}, wide{0xd0, 1}, wide{0xd3, 1}, []byte{0, 0, 0, 0, 0, 0, 0, 1}},
		{100, wide{0xcf, 100}, wide{0xd1, 100}},
		{200, wide{0xcd, 200}, wide{0xd2, 200}},
		{70000, wide{0xcf, 70000}},
		{uint64(1) << 31, wide{0xcf, 1 << 31}, wide{0xd3, 1 << 31}},
		{uint64(1) << 63},
		{uint64(math.MaxUint64)},
		{-1, wide{0xd0, -1}, wide{0xd1, -1}, wide{0xd2, -1}},
		{math.MinInt64},
		{long, hex.EncodeToString(long)},
		{[]byte("12345678")},
		{"no hex at all"},
	}
	seen := map[uint64]int{}
	for i, forms := range same {
		for _, form := range forms {
			b := decode(t, batch(list{"BlockRemoved", list{form}}))
			if b.Unknown > 0 {
				t.Errorf("%v is not known", form)
				continue
			}
			name := b.Events[0].Names[0]
			if other, taken := seen[name]; taken && other != i {
				t.Errorf("%v has the name of %v", form, same[other][0])
			}
			seen[name] = i
		}
	}
	if len(seen) != len(same) {
		t.Errorf("%d names of %d hashes", len(seen), len(same))
	}
}

func TestKVE07TierGroupAndAdapterAreRead(t *testing.T) {
	for medium, want := range map[any]string{"GPU": "gpu", nil: "gpu", "cpu": "cpu", "CPU_PINNED": "cpu", "DISK": "disk", "tape": "unknown"} {
		e := decode(t, batch(list{"BlockRemoved", list{1}, medium, 3})).Events[0]
		got := "unknown"
		if e.TierKnown {
			got = e.Tier.String()
		}
		if got != want || e.Group != 3 {
			t.Errorf("%v is %s, group %d", medium, got, e.Group)
		}
	}
	e := decode(t, batch(pairs{"type", "BlockRemoved", "block_hashes", list{1, 2}, "remaining_copy_counts", list{3, 0}})).Events[0]
	if !slices.Equal(e.Left, []int{3, 0}) {
		t.Errorf("left %v", e.Left)
	}
}

func TestLOR01MM01SEC03ExtraKeysTellAdapterMediaAndSaltApart(t *testing.T) {
	stored := func(adapter, id, extra any) Event {
		return decode(t, batch(list{"BlockStored", list{1, 2}, nil, list{1, 2}, 1, id, "GPU", adapter, extra})).Events[0]
	}
	salt, image := prefix.AppendExtra(nil, "s"), prefix.AppendExtraMedia(nil, "img", -4)
	for name, c := range map[string]struct {
		e       Event
		adapter string
		first   string
	}{
		"none":                     {stored(nil, nil, list{nil, nil}), "", ""},
		"absent":                   {stored(nil, nil, nil), "", ""},
		"the adapter":              {stored("ada", nil, list{list{"ada"}, list{"ada"}}), "ada", ""},
		"adapter number only":      {stored(nil, 4, list{list{4}, list{4}}), "#4", ""},
		"a salt":                   {stored(nil, nil, list{list{"s"}, nil}), "", string(salt)},
		"adapter and salt":         {stored("ada", 1, list{list{"ada", "s"}, list{"ada"}}), "ada", string(salt)},
		"a salt like the adapter":  {stored("s", 1, list{list{"s", "s"}, list{"s"}}), "s", string(salt)},
		"an image":                 {stored(nil, nil, list{list{list{"img", -4}}, nil}), "", string(image)},
		"adapter, image, and salt": {stored("ada", 1, list{list{"ada", list{"img", -4}, "s"}, nil}), "ada", string(prefix.AppendExtra(slices.Clone(image), "s"))},
	} {
		if c.e.Adapter != c.adapter || string(c.e.extra(0)) != c.first || len(c.e.extra(1)) != 0 {
			t.Errorf("%s: adapter %q, extra %q and %q", name, c.e.Adapter, c.e.extra(0), c.e.extra(1))
		}
	}
	if b := decode(t, batch(list{"BlockStored", list{1}, nil, list{1}, 1, nil, "GPU", nil, list{list{1.5}}})); b.Unknown != 1 {
		t.Error("an extra key of no known form was believed")
	}
}

func TestWhatIsBrokenIsRefusedAsAWhole(t *testing.T) {
	good := batch(list{"BlockStored", list{1}, nil, list{1, 2}, 2, nil}, list{"AllBlocksCleared"})
	for n := range len(good) {
		if _, err := new(Decoder).Decode(good[:n]); err == nil {
			t.Errorf("%d of %d bytes were believed", n, len(good))
		}
	}
	deep := slices.Repeat([]byte{0x91}, 100)
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{append(slices.Clone(good), 0), "bytes follow"},
		{pack(nil, list{1.5, list{list{"X", 1}}, 0})[:12], "ends in the middle"},
		{append(pack(nil, 1.5)[:0], append([]byte{0x92, 0xc0, 0x91}, deep...)...), "nested deeper"},
		{[]byte{0x92, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff}, "ends in the middle"},
		{pack(nil, "hello"), "neither array nor map"},
		{pack(nil, list{1.5}), "has none"},
		{[]byte{0xc1}, "neither"},
		{[]byte{0x92, 0xc1, 0x90}, "0xc1"},
	} {
		if _, err := new(Decoder).Decode(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v, want %s", c.b, err, c.want)
		}
	}
}

func TestWhatIsWrittenReadsAsItself(t *testing.T) {
	events := []Event{
		{Kind: Stored, Names: []uint64{1, 1 << 40}, Tokens: slices.Repeat([]uint32{1, 200, 300, 70000}, 8), BlockTokens: 16, Adapter: "ada"},
		{Kind: Stored, Names: []uint64{3}, Parent: 1 << 40, HasParent: true, Tokens: make([]uint32, 16), BlockTokens: 16, Tier: kvindex.CPU},
		{Kind: Removed, Names: []uint64{3}},
		{Kind: Cleared},
	}
	b := decode(t, AppendBatch(nil, 2.5, 4, events))
	if b.Rank != 4 || len(b.Events) != len(events) {
		t.Fatalf("rank %d, %d events", b.Rank, len(b.Events))
	}
	for i := range events {
		got, want := &b.Events[i], &events[i]
		if got.Kind != want.Kind || !slices.Equal(got.Names, want.Names) || got.Parent != want.Parent || !slices.Equal(got.Tokens, want.Tokens) || got.Tier != want.Tier || got.Adapter != want.Adapter {
			t.Errorf("%+v became %+v", want, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"vllm_bytes.jsonl", "vllm_report.jsonl"} {
		f.Add(recording(f, name)[0].payload)
	}
	f.Add(batch(list{"BlockRemoved", list{wide{0xd3, -5}, []byte{1}}, "CPU", 1}, pairs{"type", "AllBlocksCleared"}))
	f.Add(pack(nil, pairs{"events", list{}, "attn_dp_rank", 1}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer leash.Hold(t, len(payload))()
		stampedByAClock(t, payload)
		var d Decoder
		b, err := d.Decode(payload)
		if err != nil {
			return
		}
		values := 0
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind == 0 {
				t.Fatal("an event without a kind")
			}
			values += 1 + len(e.Names) + len(e.Tokens) + len(e.Extra)
		}
		if values+b.Unknown > len(payload) {
			t.Fatalf("%d values out of %d bytes", values, len(payload))
		}
		count := len(b.Events)
		if again, err := d.Decode(payload); err != nil || len(again.Events) != count {
			t.Fatalf("a second reading has %v", err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	names, tokens := make([]uint64, 32), make([]uint32, 512)
	for i := range names {
		names[i] = uint64(i) << 50
	}
	for i := range tokens {
		tokens[i] = uint32(i * 100)
	}
	payload := AppendBatch(nil, 1, 0, []Event{{Kind: Stored, Names: names, Tokens: tokens, BlockTokens: 16}})
	var d Decoder
	for b.Loop() {
		if _, err := d.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/block")
}
