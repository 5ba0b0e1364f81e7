package main

import (
	"bytes"
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMUL01NamesThatStandForSeveralModelsKeepToWhatIsSetBeforeSimulatedEngines(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, show := range []func(context.Context, *proof) error{showCheapest, showStaying, showOverflow} {
		var out bytes.Buffer
		p := proofOf(&out)
		if err := show(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for _, v := range p.verdicts {
			if !v.Pass {
				t.Errorf("%s: %s\n%v", v.Case, v.Figures, v.Detail)
			}
		}
	}
}
