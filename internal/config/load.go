package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/warmpath/warmpath/internal/strict"
)

// fileBytesMax bounds the configuration file; 500 workers take 50 KB.
const fileBytesMax = 4 << 20

// Load reads the file at path over Default, checks it and returns it complete. Any error is an *Error.
func Load(path string) (Config, error) {
	text, err := read(path)
	if err != nil {
		var inPath *os.PathError
		if errors.As(err, &inPath) {
			err = inPath.Err // the path stands in front already
		}
		return Config{}, &Error{Problems: []Problem{{File: path, Message: err.Error()}}}
	}
	return Parse(path, text, os.LookupEnv)
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("larger than %s, the most a configuration may have", Bytes(fileBytesMax))
	}
	return text, err
}

// Parse is Load on a text: name stands in front of each problem, env answers ${env.NAME}.
func Parse(name string, text []byte, env func(string) (string, bool)) (Config, error) {
	c := Default()
	d := strict.NewReader(name, env, reflect.TypeFor[Config]())
	if root := d.Document(text); root != nil {
		d.Mapping(root, "", reflect.ValueOf(&c).Elem())
	}
	for i := range c.Workers {
		c.Workers[i].complete()
	}
	c.Discovery.complete()
	above := 1.0
	for i := range c.Queue.Classes {
		c.Queue.Classes[i].complete(above)
		above = c.Queue.Classes[i].Ceiling
	}
	for _, p := range c.problems(d.IsSet) {
		if !d.InTrouble(p.Key) {
			d.Report(d.LineOf(p.Key), p.Key, p.Message)
		}
	}
	if err := d.Problems(); err != nil {
		return Config{}, err
	}
	return c, nil
}
