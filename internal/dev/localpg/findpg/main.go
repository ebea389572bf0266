// Command findpg prints the folder of the Postgres binaries that the private cluster would use, so
// that the set-up scripts ask the same question as the program. Exit code 1: there is none, or with
// -vector, it has no pgvector.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

func main() {
	major := flag.Int("major", 0, "the major version wanted, such as 17; 0 is any from 15 on")
	vector := flag.Bool("vector", false, "it has to have pgvector")
	flag.Parse()
	dir, err := localpg.FindBinaries(".", *major)
	if err == nil && *vector && !localpg.HasVector(dir) {
		err = fmt.Errorf("the Postgres in %s has no pgvector, 0.7 or later", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
