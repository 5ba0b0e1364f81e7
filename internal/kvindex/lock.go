package kvindex

import "runtime"

const (
	// turnBlocks is after how many blocks of a batch other writers get a turn.
	turnBlocks = 64
	// giveWayMax bounds how long a writer waits for readers between two blocks, in turns of the scheduler.
	giveWayMax = 64
)

// reading takes the lock as a reader: writers let it in between two blocks.
func (x *Index) reading() {
	x.waiting.Add(1)
	x.mu.Lock()
	x.waiting.Add(-1)
}

// writing takes the lock as a writer. Hundreds of workers may tell at once: if all of them waited for mu, a reader would wait behind all of
// them, and so would each for every block that it gives way at.
func (x *Index) writing() {
	x.turn.Lock()
	x.mu.Lock()
}

func (x *Index) written() {
	x.mu.Unlock()
	x.turn.Unlock()
}

// giveWay lets readers that wait take their turn, and now and then other writers. The caller holds the lock, and must look again at what it
// knew.
func (x *Index) giveWay() {
	if x.blocks++; x.blocks%turnBlocks == 0 {
		x.written()
		x.writing()
	}
	if x.waiting.Load() == 0 {
		return
	}
	x.mu.Unlock()
	for range giveWayMax {
		if x.waiting.Load() == 0 {
			break
		}
		runtime.Gosched()
	}
	x.mu.Lock()
}
