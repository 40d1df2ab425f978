// What both pages share: the words of the interface, and asking the server.
export const by = (id) => document.getElementById(id);
export function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

const PASSING = [undefined, 429, 502, 503, 504]; // statuses of what passes; undefined: no answer
const WORDS = {
  en: {
    other: "Français", model: "Model", key: "API key", copy: "Copy", attention: "Attention of this sentence",
    glossary: "Glossary", terms: "A phrase, = and its translation, on a line each",
    others: "Other translations", from: "Otherwise from “%”", words: "Words of the translation",
    sure: "confidence", shade: "A word underlined in orange is one that the model was less sure of. Choose a word to see how the sentence could continue from there.",
    back: "Back", layer: "Layer", head: "Head", mean: "mean of heads", failed: "The server does not answer",
    map: "Rows: words of the translation. Columns: what the model looked at. The stronger the colour, the more.",
    empty: "Translate a sentence first.", title: "seq2seq: translation", titleMap: "seq2seq: attention",
    copied: "Copied", seeking: "Other translations are being sought …", none: "No other translation was found",
    full: "The text has reached its greatest length: what is beyond is cut off", unread: "Not understood in the glossary: %",
    403: "A valid API key is needed", 413: "The text is too long", 429: "Too many requests: please wait",
    500: "The server has failed", 503: "The server is busy: please wait",
  },
  fr: {
    other: "English", model: "Modèle", key: "Clé d’API", copy: "Copier", attention: "Attention de cette phrase",
    glossary: "Glossaire", terms: "Une expression, = et sa traduction, une par ligne",
    others: "Autres traductions", from: "Autrement à partir de « % »", words: "Mots de la traduction",
    sure: "confiance", shade: "Un mot souligné en orange est un mot dont le modèle était moins sûr. Choisissez un mot pour voir comment la phrase pourrait continuer.",
    back: "Retour", layer: "Couche", head: "Tête", mean: "moyenne des têtes", failed: "Le serveur ne répond pas",
    map: "Lignes : mots de la traduction. Colonnes : ce que le modèle a regardé. Plus la couleur est forte, plus il y a d’attention.",
    empty: "Traduisez d’abord une phrase.", title: "seq2seq : traduction", titleMap: "seq2seq : attention",
    copied: "Copié", seeking: "Recherche d’autres traductions…", none: "Aucune autre traduction n’a été trouvée",
    full: "Le texte a atteint sa longueur maximale : la suite est coupée", unread: "Ligne du glossaire incomprise : %",
    403: "Il faut une clé d’API valide", 413: "Le texte est trop long", 429: "Trop de requêtes : veuillez patienter",
    500: "Le serveur a rencontré une erreur", 503: "Le serveur est occupé : veuillez patienter",
  },
};

// What is remembered; by this page alone if the browser blocks its storage.
const memory = { getItem: (name) => memory[name], setItem: (name, value) => (memory[name] = value) };
let lasting = memory;
export let session = memory;
try {
  [lasting, session] = [localStorage, sessionStorage];
} catch {}

export const tongue = () => lasting.getItem("tongue") ?? (navigator.language.startsWith("fr") ? "fr" : "en");
// Words of the interface; `about` stands where they have a %.
export const say = (name, about = "") => WORDS[tongue()][name]?.replace("%", () => about);

// Write the interface in its language; `other`: in the other one from now on.
export function speak(other = false) {
  if (other) lasting.setItem("tongue", tongue() === "fr" ? "en" : "fr");
  document.documentElement.lang = tongue();
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say);
  const button = by("language");
  button.textContent = say("other");
  button.lang = tongue() === "fr" ? "en" : "fr";
}

// What the server answers. Throws what is wrong, and in how many `seconds` to ask again, if ever.
export async function ask(path, body, signal) {
  const key = session.getItem("key");
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const how = body ? { method: "POST", body: JSON.stringify(body) } : {};
  let response, found;
  try {
    response = await fetch(path, { ...how, headers, signal });
    found = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response?.ok && found) return found;
  const error = new Error(say(response?.status) ?? found?.error ?? say("failed"));
  if (PASSING.includes(response?.status)) error.seconds = Number(response?.headers.get("Retry-After")) || 5;
  throw error;
}
