// Package strict reads YAML along Go types: a key that nobody knows is an error with its line and the nearest right name, a number is no
// duration, and nothing is coerced. The tags of the types are the one source of the keys: what reads a file also prints one, checks it, and
// writes its JSON schema and its reference.
//
//	r := strict.NewReader("f.yaml", os.LookupEnv, reflect.TypeFor[Config]())
//	if root := r.Document(text); root != nil {
//		r.Mapping(root, "", reflect.ValueOf(&c).Elem())
//	}
//	for _, p := range strict.Limits(reflect.ValueOf(c), "") {
//		r.Report(r.LineOf(p.Key), p.Key, p.Message)
//	}
//	err := r.Problems() // an *Error: one line a problem, in the order of the file
package strict
