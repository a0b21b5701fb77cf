package main

import "regexp"

// A known difference: where it shows, and why it stays.
type difference struct {
	scene, label *regexp.Regexp
	reason       string
	full         bool // shows in full runs only
}

func differs(scene, label, reason string) difference {
	return difference{regexp.MustCompile("^(" + scene + ")$"), regexp.MustCompile("^(" + label + ")$"), reason, false}
}

var known = []difference{}

func knownDifference(scene, label string) string {
	for _, one := range known {
		if one.scene.MatchString(scene) && one.label.MatchString(label) {
			return one.reason
		}
	}
	return ""
}
