package testkit

import (
	"os/exec"
	"testing"
)

// FindBrowser returns the path of Chromium, and ends the test where there is none. Debian's build without windows comes
// first: it takes two thirds of the CPU of the one with them.
func FindBrowser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: run scripts/setup test, or apt-get install chromium-headless-shell")
	return ""
}
