package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"testing"
)

// FreeAddress returns an address that nothing listens at, for other programs, and for servers that come back. Its port is none
// of those that the system hands out, so that no connection of another test takes it meanwhile.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func freeAddress() (string, error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			_ = listener.Close() // it was only asked whether it is free
			return address, nil
		}
	}
	return "", errors.New("no port is free")
}

// FindBrowser returns the path of Chromium, and ends the test where there is none.
func FindBrowser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} { // Debian's first
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: run scripts/setup test, or apt-get install chromium")
	return ""
}
