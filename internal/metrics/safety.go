package metrics

// What a scrape shows of certificates, of files that changed, and of who was not let in.

// SafetyState is all of it. Counts are totals since the start.
type SafetyState struct {
	Certificates []CertificateState
	FilesGood    uint64 // changes of files that were taken up
	FilesBad     uint64 // and those that could not be used
	Refused      map[string]uint64
}

// CertificateState is one certificate that is shown to clients or workers.
type CertificateState struct {
	File             string
	NotAfterUnixSecs float64
}

// accessReasons are why the admin port lets nobody in.
var accessReasons = []string{"host", "origin", "token", "role"}

// changes are how a change of watched files went.
var changes = []string{"used", "refused"}

// certificatesMax bounds the files that have series.
const certificatesMax = 1024

func emitSafety(emit emitter, s *SafetyState) {
	for _, c := range s.Certificates[:min(len(s.Certificates), certificatesMax)] {
		emit("warmpath_certificate_expiry_timestamp_seconds", c.NotAfterUnixSecs, c.File)
	}
	for i, n := range []uint64{s.FilesGood, s.FilesBad} {
		emit("warmpath_file_changes_total", float64(n), changes[i])
	}
	for _, reason := range accessReasons {
		emit("warmpath_admin_refused_total", float64(s.Refused[reason]), reason)
	}
}
