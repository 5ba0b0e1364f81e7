package socket

import "testing"

func TestConnectionsCountFromWhenTheyAreMadeUntilTheyAreClosed(t *testing.T) {
	before := Open()
	c, _ := pair(t, nil)
	if Open() != before+1 {
		t.Errorf("%d are open, want %d", Open(), before+1)
	}
	if c.Crowded() {
		t.Error("crowded without a bound")
	}
	SetMost(before + 1)
	defer SetMost(0)
	if !c.Crowded() {
		t.Error("not crowded at the bound")
	}
	c.Close()
	c.Close()
	if Open() != before || c.Crowded() {
		t.Errorf("closed twice, %d are open, want %d", Open(), before)
	}
}
