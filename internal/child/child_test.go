package child

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAProcessIsMeasuredWithItsChildrenAndEndsWithThem(t *testing.T) {
	p, err := Start("shell", "", []string{"sh", "-c", "sleep 60 & echo begun; while :; do :; done"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for p.CPU() == 0 || len(p.group()) < 2 { // until it has worked and its child is there; the test's own time limit bounds it
	}
	if p.Memory() <= 0 || p.PeakMemory() < p.Memory()/2 {
		t.Errorf("%d bytes of memory, %d at most", p.Memory(), p.PeakMemory())
	}
	p.Stop()
	<-p.Ended()
	if left := p.group(); len(left) > 0 {
		t.Errorf("%v are left of its group", left)
	}
	if !strings.Contains(p.LastWords(), "begun") {
		t.Errorf("its last words are %q", p.LastWords())
	}
}

func TestWhatCannotBeStartedIsNamed(t *testing.T) {
	if _, err := Start("nothing", "", []string{"/no/such/program"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("%v", err)
	}
	var none *Process
	none.Stop()
}

func TestTwoFreeAddressesAreToldApart(t *testing.T) {
	one, other, err := FreeAddrs()
	if err != nil || one == other {
		t.Errorf("%s and %s, %v", one, other, err)
	}
}
