package declog

// Run is a run of consecutive block numbers: First, First+1, ... Count of them. In JSON it is [first, count].
type Run struct {
	First uint64
	Count int
}
