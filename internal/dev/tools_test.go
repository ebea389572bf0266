package dev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The demo tools are for the offline model, and never in the way of an app's own.
func TestToolsAreOfferedWithTheOfflineModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   map[string]string
		there bool
	}{
		"nothing is set": {map[string]string{"TOOLS_FILE": ""}, true},
		"other tools":    {map[string]string{"TOOLS_FILE": "mine.json"}, false},
		"another model":  {map[string]string{"OPENAI_API_KEY": "sk-test"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			cfg := configured(t, map[string]string{"OPENAI_API_KEY": c.set["OPENAI_API_KEY"]})
			_, stop, err := OfferTools(cfg, root, lookup(c.set))
			require.NoError(t, err)
			defer stop()
			declared, err := os.ReadFile(filepath.Join(root, ".local", "tools.json"))
			assert.Equal(t, c.there, err == nil)
			assert.Equal(t, c.there, len(declared) > 0)
		})
	}
}

func TestToolsNeedAFolder(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(root, nil, 0o600))
	_, _, err := OfferTools(configured(t, nil), root, lookup(nil))
	assert.ErrorContains(t, err, "tools: ")
}
