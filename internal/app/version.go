package app

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by a build that has no repository beside it, such as the Dockerfile's, with the linker's -X; elsewhere "".
var linkedVersion, linkedRevision string

// Version is the tag of the build, such as v1.2.3. Without a tag it ends with the commit, without a repository it is
// "dev". revision is the commit, or "unknown".
var Version, revision = identify(readBuild(), linkedVersion, linkedRevision)

func readBuild() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// identify prefers what the linker was told to what Go found in the repository.
func identify(info *debug.BuildInfo, linkedVersion, linkedRevision string) (version, revision string) {
	version, revision = linkedVersion, linkedRevision
	if info.Main.Version != "(devel)" {
		version = cmp.Or(version, info.Main.Version)
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = cmp.Or(revision, setting.Value)
		}
	}
	return cmp.Or(version, "dev"), cmp.Or(revision, "unknown")
}

// Build describes the build in one line; the first word is the version.
func Build() string {
	return fmt.Sprintf("%s %s %s %s/%s", Version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
