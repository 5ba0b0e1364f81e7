//go:build !linux

package handover

import "time"

// monotonic is nobody's clock where there is no systemd.
func monotonic() time.Duration { return 0 }
