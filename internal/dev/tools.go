package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/tools"
)

// toolsFile is the variable that names the tools of the server.
const toolsFile = "TOOLS_FILE"

// OfferTools starts the demo tools for the offline model, unless the environment names a model or tools of its own, and returns the
// configuration with them. They are declared in a file in the root's .local, beside the postcards that they send.
func OfferTools(cfg config.Config, root string, lookup func(string) (string, bool)) (with config.Config, stop func(), err error) {
	if named, _ := lookup(toolsFile); named != "" || cfg.HasModel() {
		return cfg, func() {}, nil
	}
	folder := filepath.Join(root, ".local")
	server, err := tools.Start(filepath.Join(folder, "postcards"))
	if err != nil {
		return cfg, nil, err
	}
	file, err := declare(server, folder)
	if err == nil {
		with, err = config.Parse(func(name string) (string, bool) {
			if name == toolsFile {
				return file, true
			}
			return lookup(name)
		}, true)
	}
	if err != nil {
		return cfg, nil, errors.Join(err, server.Close())
	}
	return with, func() { _ = server.Close() }, nil // the program is about to end
}

// declare writes the file that declares the tools.
func declare(server *tools.Server, folder string) (file string, err error) {
	file = filepath.Join(folder, "tools.json")
	if err = os.MkdirAll(folder, 0o700); err == nil {
		err = os.WriteFile(file, server.Declarations(), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	return file, nil
}
