package people

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/topics"
)

// What is wrong with an archive is told, whatever it is.
func TestBrokenArchives(t *testing.T) {
	t.Parallel()
	packed, err := topics.Pack([]topics.Entry{topics.NewEntry("user", "ask1 hello", time.Now()), topics.NewEntry("assistant", "said1 hello", time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	good := archive{packed: packed.Data, messages: packed.Messages, rawBytes: packed.RawBytes, sha256: packed.SHA256}
	if entries, err := good.unpack(); err != nil || len(entries) != 2 || entries[1].Content != "said1 hello" {
		t.Fatalf("%+v, %v", entries, err)
	}
	for name, broken := range map[string]func(*archive){
		"no gzip":        func(a *archive) { a.packed = []byte("gzip") },
		"cut":            func(a *archive) { a.packed = a.packed[:len(a.packed)/2] },
		"another hash":   func(a *archive) { a.sha256 = bytes.Repeat([]byte{1}, 32) },
		"more messages":  func(a *archive) { a.messages++ },
		"fewer bytes":    func(a *archive) { a.rawBytes-- },
		"a flipped byte": func(a *archive) { a.packed = slices.Clone(a.packed); a.packed[len(a.packed)/2] ^= 0xff },
	} {
		a := good
		broken(&a)
		if _, err := a.unpack(); err == nil {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
}
