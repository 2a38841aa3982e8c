// The pages, in the order of the navigation. The server knows the first segments of their paths as
// well (src/server/dashboard/ui.c), and answers each with the same document.
import breakers from "./pages/breakers.js";
import cron from "./pages/cron.js";
import dead from "./pages/dead.js";
import experiments from "./pages/experiments.js";
import job from "./pages/job.js";
import jobs from "./pages/jobs.js";
import limits from "./pages/limits.js";
import overview from "./pages/overview.js";
import queues from "./pages/queues.js";
import simulate from "./pages/simulate.js";
import submit from "./pages/submit.js";
import tasks from "./pages/tasks.js";
import workers from "./pages/workers.js";
/** @import { Route } from "./types" */

/** @type {Route[]} */
export const ROUTES = [
  { path: "", name: "overview", title: "Overview", key: "o", page: overview },
  { path: "queues", name: "queues", title: "Queues", key: "q", page: queues },
  { path: "jobs", name: "jobs", title: "Jobs", key: "j", page: jobs },
  { path: "jobs/:id", name: "job", title: "Job", under: "jobs", page: job },
  { path: "dead", name: "dead", title: "Dead letters", key: "d", page: dead },
  { path: "breakers", name: "breakers", title: "Breakers", key: "b", page: breakers },
  { path: "limits", name: "limits", title: "Limits", key: "l", page: limits },
  { path: "tasks", name: "tasks", title: "Tasks", key: "t", page: tasks },
  { path: "cron", name: "cron", title: "Cron", key: "c", page: cron },
  { path: "workers", name: "workers", title: "Workers", key: "w", page: workers },
  { path: "experiments", name: "experiments", title: "Experiments", key: "e", page: experiments },
  { path: "simulate", name: "simulate", title: "Simulator", key: "s", page: simulate },
  { path: "submit", name: "submit", title: "Submit a job", key: "n", needs: "enqueue", page: submit },
];
