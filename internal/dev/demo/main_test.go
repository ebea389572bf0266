package demo

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
