package app

import "runtime/debug"

// gcPercent lets the heap grow by two fifths between collections, where Go's default would double it:
// half of a server's memory would be garbage, for a few percent of its time.
const gcPercent = 40

// SpareMemory makes the process collect its garbage sooner, unless GOGC says otherwise.
func SpareMemory() {
	const goDefault = 100
	if before := debug.SetGCPercent(gcPercent); before != goDefault {
		debug.SetGCPercent(before)
	}
}
