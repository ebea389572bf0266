package kit

import (
	"fmt"
	"os"
	"strings"
)

func markers(name string) (begin, end string) {
	return "<!-- " + name + ":begin -->\n", "<!-- " + name + ":end -->"
}

// CheckDocument returns an error unless the document has the two lines between which ReplaceInDocument writes.
func CheckDocument(path, name string) error {
	_, _, err := aroundMarkers(path, name)
	return err
}

// ReplaceInDocument replaces what stands between the document's lines <!-- name:begin --> and <!-- name:end -->.
func ReplaceInDocument(path, name, content string) error {
	before, after, err := aroundMarkers(path, name)
	if err != nil {
		return err
	}
	begin, end := markers(name)
	return os.WriteFile(path, []byte(before+begin+content+end+after), 0o644) //nolint:gosec // a document of the repository
}

func aroundMarkers(path, name string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	begin, end := markers(name)
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", "", fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	return before, after, nil
}
