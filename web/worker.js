// The worker of engine.js: gets the compiled module, then requests, and answers each with what the library says.
import {Library} from './module.js';

let library;

function answer({module, id, name, request, files, handle}) {
  if (module) library = new Library(module);
  else postMessage({id, answer: library.call(name, request, files, handle)});
}

addEventListener('message', event => answer(event.data));
