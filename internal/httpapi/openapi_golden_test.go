package httpapi

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/openapi.json from the code")

// The document is the public contract, so a change of it must be seen in review. Its keys are sorted.
func TestDocumentIsTheReviewedOne(t *testing.T) {
	t.Parallel()
	const golden = "testdata/openapi.json"
	made := openAPIDocument("1.2.3")
	if *update {
		if err := os.WriteFile(golden, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reviewed, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(reviewed), string(made)); diff != "" {
		t.Errorf("the document differs from %s; if that is meant, run the test with -update\n%s", golden, diff)
	}
}
