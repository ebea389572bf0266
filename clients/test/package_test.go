package clients_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPackage packs the npm package as it would be published, and uses it in a folder of its own.
func TestPackage(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	folder := t.TempDir()
	tarball, files := pack(t, folder)
	checkFiles(t, files)
	unpack(t, tarball, filepath.Join(folder, "node_modules/@arcoscribe/throughline"))
	linkDependencies(t, filepath.Join(folder, "node_modules"))
	noticeScripts(t)
	for name, arguments := range map[string][]string{
		"publint":                  {"node_modules/publint/src/cli.js", "run", "--strict", tarball},
		"types as apps resolve it": {"node_modules/@arethetypeswrong/cli/dist/index.js", "--profile", "node16", tarball},
		"sizes":                    {"testdata/sizes.js"},
		"ESM":                      {copied(t, folder, "consumer.mjs")},
		"CommonJS":                 {copied(t, folder, "consumer.cjs")},
		"types in Node":            typeCheck("node16", "node16", copied(t, folder, "consumer.mts"), copiedAs(t, folder, "consumer.mts", "consumer.cts")),
		"types in bundlers": append(typeCheck("esnext", "bundler", copiedAs(t, folder, "consumer.mts", "bundled.ts")), "--jsx", "react-jsx",
			copied(t, folder, "../docs/turn.ts"), copied(t, folder, "../docs/conversation.tsx"),
			copied(t, folder, "../docs/chat.tsx"), copied(t, folder, "../docs/remembered.tsx")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runsWell(t, nil, arguments...)
		})
	}
}

// TestPublish does all of npm publish but the upload.
func TestPublish(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	out, err := npmCommand(t, "publish", "--dry-run", "--ignore-scripts").CombinedOutput()
	require.Truef(t, err == nil, "%v\n%s", err, out)
}

// pack gives the path of the package's tarball, and the names of its files.
func pack(t *testing.T, folder string) (tarball string, files []string) {
	t.Helper()
	out, err := npmCommand(t, "pack", "--ignore-scripts", "--json", "--pack-destination", folder).Output()
	require.NoError(t, err)
	var packed []struct {
		Filename string
		Files    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &packed); err != nil || len(packed) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, file := range packed[0].Files {
		files = append(files, file.Path)
	}
	return filepath.Join(folder, packed[0].Filename), files
}

// unpack writes a package's files into a folder.
func unpack(t *testing.T, tarball, folder string) {
	require.NoError(t, os.MkdirAll(folder, 0o755))
	out, err := exec.CommandContext(t.Context(), "tar", "-xzf", tarball, "-C", folder, "--strip-components=1").CombinedOutput()
	require.Truef(t, err == nil, "%v\n%s", err, out)
}

// checkFiles wants the needed files and nothing else: no sources, no tests, no packages.
func checkFiles(t *testing.T, files []string) {
	for _, name := range []string{"LICENSE", "README.md", "package.json", "dist/esm/index.js", "dist/cjs/index.d.ts", "dist/cjs/package.json"} {
		assert.Truef(t, slices.Contains(files, name), "the package lacks %s", name)
	}
	for _, name := range files {
		built := strings.HasPrefix(name, "dist/") && (strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".d.ts"))
		assert.Truef(t, built || slices.Contains([]string{"LICENSE", "README.md", "package.json", "dist/cjs/package.json"}, name),
			"the package has %s", name)
	}
}

// linkDependencies gives a folder the packages that npm would install beside ours, without a network.
func linkDependencies(t *testing.T, folder string) {
	for _, name := range []string{"openapi-fetch", "openapi-typescript-helpers", "eventsource-parser", "react", "@types/react", "csstype", "ai"} {
		target, err := filepath.Abs(filepath.Join("node_modules", name))
		require.NoError(t, err)
		link := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
		require.NoError(t, os.Symlink(target, link))
	}
}

func typeCheck(module, resolution string, files ...string) []string {
	return append([]string{
		"node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2023,dom",
		"--module", module, "--moduleResolution", resolution,
	}, files...)
}

// copied puts a script that uses the package beside it, and gives its path.
func copied(t *testing.T, folder, name string) string {
	return copiedAs(t, folder, name, name)
}

func copiedAs(t *testing.T, folder, name, as string) string {
	content, err := os.ReadFile(filepath.Join("testdata/consumer", name))
	require.NoError(t, err)
	path := filepath.Join(folder, filepath.Base(as))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
