package app

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsTheTagOrWhatTheLinkerWasTold(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "6785c55"}}
	tagged := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}
	for name, c := range map[string]struct {
		info              *debug.BuildInfo
		linked, commit    string
		version, revision string
	}{
		"a tag":        {info: tagged, version: "v1.2.3", revision: "6785c55"},
		"a test of Go": {info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, version: "dev", revision: "unknown"},
		"no repository": {info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, linked: "v1.2.4", commit: "abc", version: "v1.2.4",
			revision: "abc"},
		"the linker, and a tag": {info: tagged, linked: "v1.2.4", version: "v1.2.4", revision: "6785c55"},
		"nothing recorded":      {info: &debug.BuildInfo{}, version: "dev", revision: "unknown"},
	} {
		if version, revision := identify(c.info, c.linked, c.commit); version != c.version || revision != c.revision {
			t.Errorf("%s: %s %s", name, version, revision)
		}
	}
}
