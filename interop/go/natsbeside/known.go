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

// What stays different, and is said in docs/security.md or docs/nats.md.
var known = []difference{
	differs("queues of users", `queue jobs\.> workers\.1`,
		"only > allows >: an entry for jobs.* is not one for jobs.>"),
	differs("nsc push, list and prune", "signed by a stranger|signed by itself",
		"claims that no trusted operator has signed are refused, and not stored"),
	differs("an account with claims, as the system account sees it", "CONNECT has the claims",
		"events do not have claims: those of a bearer are as good as a password"),
	differs("requests of the system account", `(PING|id)\.IPQUEUESZ`,
		"there are no such queues: metrics show what waits where"),
	differs("requests of the system account", "exports say which word is the account",
		"an account's exports say which word must be the importer's name, in answers, too"),
	differs("requests of the system account", "SYS has exports",
		"what every account may ask the server are no exports of the system account"),
	differs("requests of the system account", `NONE\.CONNZ`,
		"an empty list of connections is a list, and not null"),
	differs("what a service decides", "from elsewhere",
		"the networks in the claims of a service's answer apply"),
	differs("what the users of a service may do", "limited to .*",
		"the limits in the claims of a service's answer apply"),
	differs("what the users of a service may do", "info of .*",
		"the name in the claims of a service's answer is told to the user"),
}

func knownDifference(scene, label string) string {
	for _, one := range known {
		if one.scene.MatchString(scene) && one.label.MatchString(label) {
			return one.reason
		}
	}
	return ""
}
