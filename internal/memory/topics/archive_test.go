package topics

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func entries() []Entry {
	return []Entry{
		NewEntry("user", "Which rosin? <b>\"dark\"</b> & \u2028 é 🎻\n", time.Date(2026, 3, 3, 9, 0, 0, 123456000, time.UTC)),
		NewEntry("assistant", strings.Repeat("Dark rosin is softer. ", 50), time.Date(2026, 3, 3, 9, 0, 1, 0, time.UTC)),
	}
}

func TestAnArchiveIsUnpackedAsItWasPacked(t *testing.T) {
	t.Parallel()
	for _, packed := range [][]Entry{entries(), {}, nil} {
		a, err := Pack(packed)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(a.Base64(), "H4sI") || a.Messages != len(packed) || len(a.SHA256) != sha256.Size {
			t.Errorf("%s: %d messages", a.Base64(), a.Messages)
		}
		got, err := Unpack(a)
		if err != nil || len(got) != len(packed) || len(got) > 0 && !reflect.DeepEqual(got, packed) {
			t.Errorf("%v: %+v", err, got)
		}
		again, _ := Pack(packed)
		if !reflect.DeepEqual(again, a) {
			t.Error("the same entries make another archive")
		}
	}
}

// What others read: S0's MessageEntry, as Python writes it.
func TestTheFormOfAnArchive(t *testing.T) {
	t.Parallel()
	a, err := Pack([]Entry{NewEntry("user", "<Hello>", time.UnixMicro(1234567890_000000)), NewEntry("assistant", "Hi!", time.UnixMicro(1772528400_123456))})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := a.unzip()
	const want = `[{"role":"user","content":"<Hello>","timestamp":1234567890},{"role":"assistant","content":"Hi!","timestamp":1772528400.123456}]`
	if err != nil || string(raw) != want || a.RawBytes != len(want) {
		t.Errorf("%v: %s", err, raw)
	}
}

func TestTimesKeepTheirMicroseconds(t *testing.T) {
	t.Parallel()
	for _, micros := range []int64{0, 1, 1772528400_123457, 1772528400_999999, 4102444800_000001, -1} {
		if got := NewEntry("user", "", time.UnixMicro(micros)).At(); got.UnixMicro() != micros {
			t.Errorf("%d: %d", micros, got.UnixMicro())
		}
	}
}

func TestABrokenArchiveIsToldByItsReason(t *testing.T) {
	t.Parallel()
	const words = "Dark rosin"
	for reason, spoil := range map[string]func(*Archive){
		"no gzip":             func(a *Archive) { a.Data = []byte("no gzip at all") },
		"damaged or cut":      func(a *Archive) { a.Data = a.Data[:len(a.Data)/2] },
		"another checksum":    func(a *Archive) { a.SHA256[7] ^= 1 },
		"2 messages, not 3":   func(a *Archive) { a.Messages = 3 },
		"no list of messages": func(a *Archive) { *a = packRaw(t, `{"role":`) },
		"not 17 bytes":        func(a *Archive) { a.RawBytes = 17 },
		"not 99999 bytes":     func(a *Archive) { a.RawBytes = 99_999 },
	} {
		a, err := Pack(entries())
		if err != nil {
			t.Fatal(err)
		}
		spoil(&a)
		got, err := Unpack(a)
		if got != nil || !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, %d entries", reason, err, len(got))
		}
	}
	if _, err := Unpack(Archive{}); !errors.Is(err, ErrBroken) {
		t.Errorf("an empty one: %v", err)
	}
}

// No bit of an archive's compressed content can change unnoticed. Its header names the system that made it, which no reader
// looks at.
func TestEachFlippedBitIsNoticed(t *testing.T) {
	t.Parallel()
	const header = 10
	whole, err := Pack(entries())
	if err != nil {
		t.Fatal(err)
	}
	for n := header * 8; n < len(whole.Data)*8; n++ {
		a := whole
		a.Data = bytes.Clone(whole.Data)
		a.Data[n/8] ^= 1 << (n % 8)
		if got, err := Unpack(a); !errors.Is(err, ErrBroken) && !reflect.DeepEqual(got, entries()) {
			t.Fatalf("bit %d: %v, %+v", n, err, got)
		}
	}
}

// A small archive that holds a lot is not read further than it says it goes: not up to where it is damaged.
func TestABombIsNotUnpacked(t *testing.T) {
	t.Parallel()
	a := packRaw(t, strings.Repeat(" ", 8<<20)+"[]")
	a.Data, a.RawBytes = a.Data[:len(a.Data)/2], 1000
	if _, err := Unpack(a); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "not 1000 bytes") {
		t.Errorf("%v", err)
	}
}

func packRaw(t *testing.T, raw string) Archive {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(raw))
	return Archive{Data: packed.Bytes(), RawBytes: len(raw), SHA256: sum[:], Messages: 2}
}

func FuzzUnpack(f *testing.F) {
	whole, err := Pack(entries())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Data, whole.RawBytes, whole.Messages)
	f.Add(whole.Data[:20], 0, 0)
	f.Add([]byte("H4sI"), -1, 1<<30)
	f.Fuzz(func(t *testing.T, data []byte, size, messages int) {
		a := Archive{Data: data, RawBytes: size % (1 << 20), Messages: messages, SHA256: whole.SHA256}
		if got, err := Unpack(a); err == nil && len(got) != whole.Messages || err != nil && !errors.Is(err, ErrBroken) {
			t.Errorf("%v, %+v", err, got)
		}
	})
}

func FuzzPack(f *testing.F) {
	f.Add("user", "Hello", int64(1234567890_000000))
	f.Add("assistant", "\x00\xff<>&\u2028", int64(-1))
	f.Fuzz(func(t *testing.T, role, content string, micros int64) {
		const century = 100 * 365 * 24 * 3600 * 1_000_000
		packed := []Entry{NewEntry(strings.ToValidUTF8(role, "?"), strings.ToValidUTF8(content, "?"), time.UnixMicro(micros%century))}
		a, err := Pack(packed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(a)
		if err != nil || !reflect.DeepEqual(got, packed) || got[0].At().UnixMicro() != micros%century {
			t.Errorf("%v: %+v, not %+v", err, got, packed)
		}
	})
}
