package kvbench

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/kvindex"
)

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(playEnv)); err == nil {
		if err := Publish(context.Background(), n, os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestASmallRunMeasuresEverything(t *testing.T) {
	z := size{resident: 20_000, opsLeast: 1, wireLeast: 1, shortP50: 1e9, p99: 1e9, longP50: 1e9, longP99: 1e9, bytesMost: 1e9}
	m, err := z.measure(t.Context(), bench.Options{Rounds: 1, Window: 20 * time.Millisecond, Progress: t.Output()})
	if err != nil || m.ops <= 0 || m.wire <= 0 || m.fill <= 0 || m.short.p50 <= 0 || m.long.p99 <= 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if checks := z.checks(m); len(checks) != 7 {
		t.Errorf("%d checks", len(checks))
	}
}

func TestOneBlockInTenIsHeldBySeveral(t *testing.T) {
	x := kvindex.New(kvindex.Options{})
	s := newStream(x)
	s.fill(100_000)
	for range 2000 {
		s.message()
	}
	st := x.Stats()
	if st.Pairs != s.pairs || st.Unknown+st.Conflicts > 0 {
		t.Errorf("%d pairs, want %d; %d unknown, %d conflicts", st.Pairs, s.pairs, st.Unknown, st.Conflicts)
	}
	if shared := float64(st.Pairs-st.Nodes) / float64(st.Nodes); shared < .05 || shared > .2 {
		t.Errorf("%d pairs of %d blocks", st.Pairs, st.Nodes)
	}
}
