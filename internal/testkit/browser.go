package testkit

import (
	"os/exec"
	"testing"
)

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
