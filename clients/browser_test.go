package clients_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// browserFlags start a headless browser that stores nothing and connects only to the page's servers. It has no sandbox,
// because containers allow none and it runs only this folder's code.
var browserFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--disable-breakpad",
	"--no-first-run", "--log-level=3", "--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--disable-default-apps", "--disable-extensions", "--no-proxy-server",
	"--disable-background-timer-throttling", "--disable-renderer-backgrounding",
}

// openBrowser opens a page until the test ends.
func openBrowser(t *testing.T, url string, more ...string) {
	t.Helper()
	arguments := append(append([]string{}, browserFlags...), more...)
	arguments = append(arguments, "--user-data-dir="+t.TempDir(), url)
	startProcess(t, exec.Command(testkit.FindBrowser(t), arguments...))
}

// startProcess runs a program until the test ends, and kills its children as well. Its output is shown when the test
// failed.
func startProcess(t *testing.T, command *exec.Cmd) {
	t.Helper()
	output := &testkit.Log{}
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.WaitDelay = 5 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // the whole group; it may be gone already
		_ = command.Wait()                                      // it was killed
		if t.Failed() {
			t.Logf("%s wrote:\n%s", command.Path, output)
		}
	})
}
