// Command findpg prints the folder of the Postgres binaries that the private cluster would use, so
// that the set-up scripts ask the same question as the program. Exit code 1: there is none.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

func main() {
	major := flag.Int("major", 0, "the major version wanted, such as 17; 0 is any from 15 on")
	flag.Parse()
	dir, err := localpg.FindBinaries(".", *major)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
